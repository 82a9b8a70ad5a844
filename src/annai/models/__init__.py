"""What do models need? Their weights, a service on the network, memory while in use, and what is known of them."""
