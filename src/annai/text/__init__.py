"""What is a text made of? Tokens, words, lines, headings, blocks and fields."""
