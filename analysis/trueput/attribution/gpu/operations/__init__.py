"""Operations of a profile that cannot be as they stand there, or stand there twice."""
