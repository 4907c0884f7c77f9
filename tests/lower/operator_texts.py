"""The operator of arg-max, as text."""

TIES = """let better: bool = greater(lv, rv)
    let same: bool = equal(lv, rv)
    let first: bool = less(li, ri)
    let tie: bool = logical_and(same, first)"""
NAN = """
    let lnan: bool = not_equal(lv, lv)
    let rnan: bool = not_equal(rv, rv)
    let fine: bool = logical_not(rnan)
    let only: bool = logical_and(lnan, fine)
    let both: bool = logical_and(lnan, rnan)
    let tie2: bool = logical_and(both, first)
    let c0: bool = logical_or(better, tie)
    let c1: bool = logical_or(only, tie2)
    let c: bool = logical_or(c0, c1)"""
