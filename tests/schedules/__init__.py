"""Tests of cron schedules."""
