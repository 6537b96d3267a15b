"""The group policy: ``v1`` has pod disruption budgets."""
