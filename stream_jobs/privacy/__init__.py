"""What people may ask of their vehicle's data: a copy of all of it (``export``), and its end (``erase``)."""
