; program over c, pass 1 of 1
; Every answer must be unsat: no real values break the identity.

(echo "closure of k")
(push)
(declare-const c0 Real) ; x[r, c]
(declare-const m Real)
(declare-const m_next Real)
(declare-const m_last Real)
(declare-const c1 Real) ; 1 + c
(declare-const t0 Real)
(declare-const t1 Real)
(declare-const infinity Real) ; above what it is compared with
(assert (< c1 infinity))
(assert (< t0 infinity))
(assert (< t1 infinity))
(assert (<= c0 m))
(assert (<= m m_next))
(assert (<= m_next m_last))
(assert (< 0.0 c1))
(assert (< 0.0 t0))
(assert (< 0.0 t1))
(assert (not (= (ite (or (= c0 m_next) (not true)) c1 infinity) (ite (or (= m m_next) (not true)) (ite (or (= c0 m) (not true)) c1 infinity) infinity))))
(check-sat)
(pop)

(echo "distributivity of k")
(push)
(declare-const c0 Real) ; x[r, c]
(declare-const m Real)
(declare-const m_next Real)
(declare-const m_last Real)
(declare-const c1 Real) ; 1 + c
(declare-const t0 Real)
(declare-const t1 Real)
(declare-const infinity Real) ; above what it is compared with
(assert (< c1 infinity))
(assert (< t0 infinity))
(assert (< t1 infinity))
(assert (<= c0 m))
(assert (<= m m_next))
(assert (<= m_next m_last))
(assert (< 0.0 c1))
(assert (< 0.0 t0))
(assert (< 0.0 t1))
(assert (not (= (ite (or (= m m_next) (not true)) (ite (< t1 t0) t1 t0) infinity) (ite (< (ite (or (= m m_next) (not true)) t1 infinity) (ite (or (= m m_next) (not true)) t0 infinity)) (ite (or (= m m_next) (not true)) t1 infinity) (ite (or (= m m_next) (not true)) t0 infinity)))))
(check-sat)
(pop)

(echo "identity H(ρ, ρ) = 1 of k")
(push)
(declare-const c0 Real) ; x[r, c]
(declare-const m Real)
(declare-const m_next Real)
(declare-const m_last Real)
(declare-const c1 Real) ; 1 + c
(declare-const t0 Real)
(declare-const t1 Real)
(declare-const infinity Real) ; above what it is compared with
(assert (< c1 infinity))
(assert (< t0 infinity))
(assert (< t1 infinity))
(assert (<= c0 m))
(assert (<= m m_next))
(assert (<= m_next m_last))
(assert (< 0.0 c1))
(assert (< 0.0 t0))
(assert (< 0.0 t1))
(assert (not (= (ite (or (= m m) (not true)) 1.0 infinity) 1.0)))
(check-sat)
(pop)

(echo "composition H(ρ', ρ'') H(ρ, ρ') = H(ρ, ρ'') of k")
(push)
(declare-const c0 Real) ; x[r, c]
(declare-const m Real)
(declare-const m_next Real)
(declare-const m_last Real)
(declare-const c1 Real) ; 1 + c
(declare-const t0 Real)
(declare-const t1 Real)
(declare-const infinity Real) ; above what it is compared with
(assert (< c1 infinity))
(assert (< t0 infinity))
(assert (< t1 infinity))
(assert (<= c0 m))
(assert (<= m m_next))
(assert (<= m_next m_last))
(assert (< 0.0 c1))
(assert (< 0.0 t0))
(assert (< 0.0 t1))
(assert (not (= (ite (or (= m_next m_last) (not true)) (ite (or (= m m_next) (not true)) 1.0 infinity) infinity) (ite (or (= m m_last) (not true)) 1.0 infinity))))
(check-sat)
(pop)

(echo "merge of two parts = the whole of k")
(push)
(declare-const c0_a Real) ; x[r, c]
(declare-const m_a Real)
(declare-const m_next Real)
(declare-const c1_a Real) ; 1 + c
(declare-const c0_b Real) ; x[r, c]
(declare-const m_b Real)
(declare-const c1_b Real) ; 1 + c
(declare-const infinity Real) ; above what it is compared with
(assert (< c1_a infinity))
(assert (< c1_b infinity))
(assert (<= c0_a m_a))
(assert (<= m_a m_next))
(assert (< 0.0 c1_a))
(assert (<= c0_b m_b))
(assert (<= m_b m_next))
(assert (< 0.0 c1_b))
(assert (not (= (ite (< (ite (or (= m_b m_next) (not true)) (ite (or (= c0_b m_b) (not true)) c1_b infinity) infinity) (ite (or (= m_a m_next) (not true)) (ite (or (= c0_a m_a) (not true)) c1_a infinity) infinity)) (ite (or (= m_b m_next) (not true)) (ite (or (= c0_b m_b) (not true)) c1_b infinity) infinity) (ite (or (= m_a m_next) (not true)) (ite (or (= c0_a m_a) (not true)) c1_a infinity) infinity)) (ite (< (ite (or (= c0_b m_next) (not true)) c1_b infinity) (ite (or (= c0_a m_next) (not true)) c1_a infinity)) (ite (or (= c0_b m_next) (not true)) c1_b infinity) (ite (or (= c0_a m_next) (not true)) c1_a infinity)))))
(check-sat)
(pop)

(echo "merge of two parts = the whole of m")
(push)
(declare-const u0 Real)
(declare-const u1 Real)
(declare-const u2 Real)
(declare-const m_b Real)
(declare-const m_a Real)
(assert (not (= (ite (> u2 (ite (> u1 u0) u1 u0)) u2 (ite (> u1 u0) u1 u0)) (ite (> (ite (> u2 u1) u2 u1) u0) (ite (> u2 u1) u2 u1) u0))))
(check-sat)
(pop)
