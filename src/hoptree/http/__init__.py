"""HTTP, from both ends.

Servers that are spoken to (client, carrier, plain, general, polite, remembered): whatever goes wrong on the way becomes
a typed error. And what servers of ours have in common (listening, patience, crowding, hanging_up, stopping, outside,
refused): whom they put up with, what they tell, and what they log.
"""

from hoptree.http.client import MAX_BODY, Http, error_text, kind_of_body, without_password

__all__ = ["MAX_BODY", "Http", "error_text", "kind_of_body", "without_password"]
