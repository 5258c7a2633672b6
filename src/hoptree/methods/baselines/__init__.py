"""The methods the four systems are compared with."""
