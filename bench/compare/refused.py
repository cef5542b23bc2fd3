class Refused(Exception):
    """Something that cannot be meant or used; the message is for the user."""
