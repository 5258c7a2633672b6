"""Which questions may be trained on, and what is known of them."""
