"""Operations that torch has, made quick on a CPU."""
