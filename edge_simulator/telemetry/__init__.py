"""From the state of the world to messages: instruments, frames, and who reports when."""
