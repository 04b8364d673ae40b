"""What is known of each architecture: one row per name in `architectures[0]`.

`row` says what a row can state, `table` puts the rows together by name; the rows themselves stand
in a module for each form of model.
"""
