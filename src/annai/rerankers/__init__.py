"""Which of the best results answer a question best? One module for each provider."""
