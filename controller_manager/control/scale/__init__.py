"""The scale subresource of any kind that has one."""
