"""What adapters are worth beside the model they were trained on."""
