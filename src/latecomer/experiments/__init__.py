"""The papers' experiments: their figures drawn again, their claims judged, what they leave out swept."""
