"""What does an agent see? The Model Context Protocol, spoken over standard input and output and over HTTP."""
