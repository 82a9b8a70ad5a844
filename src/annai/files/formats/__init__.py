"""What do files say that are no plain text? Each module turns one kind of file into Markdown; none does any I/O."""
