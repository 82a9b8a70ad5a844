"""What programs need to install annai for their agents."""
