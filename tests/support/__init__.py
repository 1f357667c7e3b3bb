"""What tests of several parts share: comparing numbers, running commands, browsers, fresh processes."""
