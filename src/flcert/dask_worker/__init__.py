"""Code for a worker that shares its process with other code. It loads without torch, which only the child needs."""
