"""Tests of the cron job controller."""
