-- Workers ask for the roots behind the last one that they know.
CREATE UNIQUE INDEX roots_number ON roots (number);
