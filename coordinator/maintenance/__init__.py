"""Operations that keep a table small or take it back. Each has a pure, printable plan, and an execution that can be repeated."""
