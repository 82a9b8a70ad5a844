"""What is asked? A question with its options, what its words were meant to be, and what its paths name."""
