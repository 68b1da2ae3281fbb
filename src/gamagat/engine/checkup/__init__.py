"""The checks that the doctor makes; each says what it saw as findings."""
