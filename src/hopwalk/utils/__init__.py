"""Small tools that know nothing of knowledge graphs: files, text, threads, random masks, charts."""
