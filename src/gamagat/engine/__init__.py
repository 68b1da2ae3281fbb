"""The engine moves images through attacks and judges what comes back."""
