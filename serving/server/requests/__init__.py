"""What happens between the wire and the model: checks, limits, batches, worker threads, observation."""
