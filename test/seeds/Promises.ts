/**
 * The promises of the five systems that Outlast unites, and of the request that began it. Each has an id and one line.
 *
 * {@link works} names the tests that show the promise; without a test, its id begins the title of a test in this folder.
 * {@link later} names the work that is still to come. {@link outOfScope} says why a promise is not kept, and names the
 * test that shows what happens instead.
 */

/** A test: its file, and the end of its path of titles, joined by " > ". */
export interface TestRef {
  readonly file: string
  readonly title: string
}

export interface Promised {
  readonly id: string
  readonly promise: string
  readonly status: "works" | "later" | "out-of-scope"
  /** Empty for a promise whose test begins with its id. */
  readonly tests: ReadonlyArray<TestRef>
  readonly why: string | undefined
}

export interface Seed {
  readonly seed: string
  readonly name: string
  readonly promises: ReadonlyArray<Promised>
}

/** Names the tests of one file. */
export const tests =
  (file: string) =>
  (title: string): TestRef => ({ file, title })

export const works = (id: string, promise: string, ...tests: ReadonlyArray<TestRef>): Promised => ({
  id,
  promise,
  status: "works",
  tests,
  why: undefined
})

/** `why` names the work that brings it. */
export const later = (id: string, promise: string, why: string): Promised => ({
  id,
  promise,
  status: "later",
  tests: [],
  why
})

export const outOfScope = (
  id: string,
  promise: string,
  why: string,
  ...tests: ReadonlyArray<TestRef>
): Promised => ({ id, promise, status: "out-of-scope", tests, why })
