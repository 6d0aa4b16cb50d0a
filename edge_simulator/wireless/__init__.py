"""What the radio link, the store on board and the device clocks do to messages."""
