"""The methods: one file each, readable like the algorithm in its paper."""
