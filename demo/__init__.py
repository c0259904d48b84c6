"""The demo: a chat agent without a model, and a tour of what its checkpoints in Redis are good for (`make demo`)."""
