"""Answers over HTTP: a JSON API, and a page that shows answers with their paths. Needs the extra `serve`."""
