"""What replies look like, for the OpenAPI document: the shapes of the objects that are made elsewhere.

A module for each of `routes/`, which says what its routes reply, and `errors`, which is of all. A test holds the
server's replies against them, and no field may be missing here.
"""
