"""Wikipedia as it is now, or another MediaWiki, as a corpus."""
