/**
 * Judges the promises by the results of their tests. A promise without a test that ran, or with one that did not pass,
 * is broken.
 */
import type { Promised, Seed, TestRef } from "./Promises.ts"

/** One test that ran. */
export interface Ran {
  readonly file: string
  /** The titles of its groups and its own, joined by " > ". */
  readonly path: string
  readonly passed: boolean
}

export interface Verdict {
  readonly id: string
  readonly seed: string
  readonly promise: string
  /** The tests that show it, or what is missing. */
  readonly test: string
  readonly status: Promised["status"] | "broken"
  readonly why: string | undefined
}

/** The folder of the tests whose titles begin with the id of a promise. */
export const folder = "test/seeds/"

/** True when the test is the one that the promise names, or begins with its id. */
const shows = ({ id, tests }: Promised, { file, path }: Ran): boolean =>
  tests.length === 0
    ? file.startsWith(folder) && idsOf(path).includes(id)
    : tests.some((test) => isSame(test, file, path))

const isSame = (test: TestRef, file: string, path: string): boolean =>
  test.file === file && (path === test.title || path.endsWith(` > ${test.title}`))

/** The ids at the beginning of a title: `000-a, 000-b: says what`. */
const idsOf = (path: string): ReadonlyArray<string> => {
  const title = path.split(" > ").at(-1) ?? ""
  const list = /^((?:(?:\d{3}|user)-[\w-]+(?:, )?)+): /.exec(title)
  return list?.[1]?.split(", ") ?? []
}

const label = ({ file, title }: TestRef): string => `${file}: ${title}`

const judged = (seed: string, promised: Promised, all: ReadonlyArray<Ran>): Verdict => {
  const { id, promise, status, tests, why } = promised
  const said = { id, seed, promise }
  if (status === "later") return { ...said, test: "", status, why }
  const ran = all.filter((test) => shows(promised, test))
  const test =
    tests.length > 0
      ? tests.map(label).join("; ")
      : ran.map(({ file, path }) => `${file}: ${path}`).join("; ")
  const missing = tests.filter((test) => !ran.some(({ file, path }) => isSame(test, file, path)))
  if (ran.length === 0 || missing.length > 0) {
    const none = missing.length === 0 ? `a title that begins with "${id}: "` : missing.map(label).join("; ")
    return { ...said, test, status: "broken", why: `no such test: ${none}` }
  }
  const failed = ran.filter(({ passed }) => !passed)
  return failed.length === 0
    ? { ...said, test, status, why }
    : { ...said, test, status: "broken", why: `failed: ${failed.map(({ path }) => path).join("; ")}` }
}

export const judge = (seeds: ReadonlyArray<Seed>, ran: ReadonlyArray<Ran>): ReadonlyArray<Verdict> =>
  seeds.flatMap(({ seed, promises }) => promises.map((promised) => judged(seed, promised, ran)))

/** The files whose tests show a promise. */
export const filesOf = (seeds: ReadonlyArray<Seed>): ReadonlyArray<string> => [
  ...new Set(seeds.flatMap(({ promises }) => promises.flatMap(({ tests }) => tests.map(({ file }) => file))))
]

export const countsOf = (
  verdicts: ReadonlyArray<Pick<Verdict, "status">>
): Readonly<Record<Verdict["status"], number>> => {
  const counts = { works: 0, later: 0, "out-of-scope": 0, broken: 0 }
  for (const { status } of verdicts) counts[status]++
  return counts
}
