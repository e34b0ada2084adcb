/**
 * Sizes of sweeps. A sweep checks one property on many inputs: a quarter of them in each run of the tests, and all in
 * `npm run test:full`, which is for the night.
 */
export const isFull = process.env["OUTLAST_SWEEPS"] === "full"

/** The first value in `npm run test:full`, the second in each run of the tests. */
export const full = <A>(all: A, part: A): A => (isFull ? all : part)

/**
 * The seed of fast-check's inputs and of the chaos worlds. It is the same in each run of the tests, so that an unrelated
 * change never fails by luck. `SEED` sets another one, and `npm run test:full` draws one.
 */
export const seed = Number(process.env["SEED"] ?? full(Date.now() % 1_000_000, 1))

/** The number of random runs, or of rounds. */
export const runs = (all: number): number => full(all, Math.ceil(all / 4))

/** The inputs to check: every `n`th one, beginning with the first, or all. */
export const everyNth = <A>(n: number, all: ReadonlyArray<A>): ReadonlyArray<A> =>
  isFull ? all : all.filter((_, i) => i % n === 0)
