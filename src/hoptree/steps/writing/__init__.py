"""Texts that are written stretch by stretch, with searches in between."""
