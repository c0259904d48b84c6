"""The crash test: processes that run agents are killed at random moments, and every thread goes on to its right end."""
