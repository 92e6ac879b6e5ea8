"""The answer: in sentences, as a page, a picture, scenarios that run again, and for programs."""
