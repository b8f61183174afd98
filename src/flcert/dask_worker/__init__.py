"""What runs in a worker that shares its process with other code. It loads without torch, which the child has."""
