"""The ready dialects of bridges, a module for each; `rb.dialects` lists their names."""
