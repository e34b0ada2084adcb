/**
 * The cost of classifying an error: over the corpus, error by error, and for hostile texts of growing length.
 */
import { readFileSync } from "node:fs"
import { Classifier } from "@outlast/agent"
import { ErrorFacts, Redaction } from "@outlast/agent/failure"
import type { Figure, Report } from "./measure.ts"
import { measure, median } from "./measure.ts"

const corpus = new URL("../test/fixtures/corpus/public.jsonl", import.meta.url)

/** Limit for the median error, in microseconds. */
const targetMedian = 10

/** Limit for an error of 1 MB, in milliseconds. */
const targetHuge = 50

const rounds = 15

interface Sample {
  readonly id: string
  readonly provider: string
  readonly error: { readonly statusCode?: number }
}

/** The fields of the corpus that are used here; its own test checks them. */
interface CorpusCase {
  readonly id: string
  readonly provider: string
  readonly status: number | null
  readonly code: string | null
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
  readonly message: string
  readonly cause_chain: ReadonlyArray<Readonly<Record<string, string | null>>>
}

/** The errors as clients throw them, made before anything is measured. */
const samples = (): ReadonlyArray<Sample> =>
  readFileSync(corpus, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line): Sample => {
      const given: CorpusCase = JSON.parse(line)
      const { id, provider, status, code, headers, body, message } = given
      const error = {
        message,
        ...(status === null ? {} : { statusCode: status }),
        ...(code === null ? {} : { code }),
        responseHeaders: headers,
        ...(body === null ? {} : { responseBody: typeof body === "string" ? body : JSON.stringify(body) }),
        ...given.cause_chain.reduceRight<object>((cause, link) => ({ cause: { ...link, ...cause } }), {})
      }
      return { id, provider, error }
    })

/** The baseline: a classifier by status alone, as in most programs. */
const byStatus = ({ statusCode }: Sample["error"]): string => {
  switch (statusCode) {
    case 401:
    case 403:
      return "Auth"
    case 402:
      return "Billing"
    case 404:
      return "ModelNotFound"
    case 408:
    case 504:
      return "Timeout"
    case 429:
      return "RateLimit"
    case 502:
    case 503:
    case 529:
      return "Overloaded"
    default:
      return statusCode === undefined ? "Unknown" : statusCode >= 500 ? "ServerError" : "Format"
  }
}

/** Holds the results, so that the engine cannot optimise the work away. */
let sink: unknown

const micros = (run: () => void, times: number): number => {
  const start = process.hrtime.bigint()
  for (let i = 0; i < times; i++) run()
  return Number(process.hrtime.bigint() - start) / 1_000 / times
}

/** Times one function over some rounds. */
const timed = (name: string, run: () => void, times: number, count = 5): Figure => {
  const all = Array.from({ length: count }, () => micros(run, times))
  return { name, median: median(all), min: Math.min(...all), max: Math.max(...all), ratio: 1 }
}

/**
 * The time of each sample, measured call by call, with the whole corpus in turn: the same error a hundred times in
 * a row would run with warmer caches than a real one.
 */
const inTurn = (all: ReadonlyArray<Sample>, each: (sample: Sample) => void): ReadonlyArray<Figure> => {
  const medians = all.map((): Array<number> => [])
  for (let block = 0; block < 5; block++) {
    const times = all.map((): Array<number> => [])
    for (let round = 0; round < 41; round++) {
      all.forEach((sample, index) => times[index]?.push(micros(() => each(sample), 1)))
    }
    times.forEach((own, index) => medians[index]?.push(median(own)))
  }
  return all.map(({ id }, index) => {
    const own = medians[index] ?? []
    return { name: id, median: median(own), min: Math.min(...own), max: Math.max(...own), ratio: 1 }
  })
}

/** The facts and the verdict. */
const verdict = ({ error, provider }: Sample): void => {
  sink = Classifier.classify(ErrorFacts.fromUnknown(error), { provider })
}

/** The same rules without the data for the index, so that each rule is tried in turn. */
const unindexed = Classifier.defaultRules.map(({ id, why, match }) => ({ id, why, match }))

const byTryingAll = ({ error, provider }: Sample): void => {
  sink = Classifier.classify(ErrorFacts.fromUnknown(error), { provider, rules: unindexed })
}

/** The verdict, and the error that carries it: without secrets, with a stack. */
const classify = ({ error, provider }: Sample): void => {
  sink = Classifier.failureOf(error, { provider })
}

/** Texts that make regular expressions slow: long runs of a pattern's first characters, nesting, no spaces. */
const shapes: Readonly<Record<string, (length: number) => string>> = {
  spaces: (n) => " ".repeat(n),
  "one word": (n) => "a".repeat(n),
  digits: (n) => "4".repeat(n),
  "numbers 429": (n) => "429 ".repeat(n / 4),
  "rate of nothing": (n) => "rate ".repeat(n / 5),
  "try again in": (n) => "try again in ".repeat(n / 13),
  "error: error:": (n) => "error: ".repeat(n / 7),
  "model … model": (n) => "the model ".repeat(n / 10),
  "open brackets": (n) => "{".repeat(n),
  "nested JSON": (n) => `${'{"error":'.repeat(n / 10)}1${"}".repeat(n / 10)}`,
  "escaped quotes": (n) => '\\"'.repeat(n / 2),
  "open tags": (n) => "<html ".repeat(n / 6),
  "key-like": (n) => "sk-".repeat(n / 3),
  Chinese: (n) => "请求过".repeat(n / 3),
  backslashes: (n) => "\\".repeat(n),
  "broken events": (n) => "event: error\ndata: x\n".repeat(n / 21),
  "broken events of JSON": (n) => "event: error\ndata: {x\n\n".repeat(n / 23),
  "events of errors": (n) => 'event: error\ndata: {"error":1}\n\n'.repeat(n / 32),
  "a JSON error": (n) => JSON.stringify({ error: { message: "limit of tokens, ".repeat(n / 17) } })
}

const sizes = [
  ["1 KB", 1_000, 200],
  ["10 KB", 10_000, 50],
  ["100 KB", 100_000, 10],
  ["1 MB", 1_000_000, 2]
] as const

const huge = (report: Report): void => {
  let tenth: ReadonlyArray<Figure> = []
  for (const [size, length, times] of sizes) {
    const figures = Object.entries(shapes)
      .flatMap(([name, make]) => {
        const text = make(length)
        return [
          timed(`${name}, as message`, () => classify(sampleOf({ message: text })), times),
          timed(`${name}, as body`, () => classify(sampleOf({ message: "", responseBody: text })), times)
        ]
      })
      .map((figure, index) => ({ ...figure, ratio: figure.median / (tenth[index]?.median ?? figure.median) }))
    const slowest = figures.reduce((a, b) => (b.median > a.median ? b : a))
    report.table(`Hostile texts of ${size}, µs per error (ratio: to a tenth of the length)`, figures)
    const limit = length === 1_000_000 ? `; the limit is ${targetHuge} ms` : ""
    report.say(`  slowest: ${slowest.name}, ${(slowest.median / 1_000).toFixed(3)} ms${limit}`)
    tenth = figures
  }
}

/** A megabyte of the beginnings of secrets: a pattern with backtracking would never end. */
const secrets = [
  "\\",
  "sk-",
  "eyJ",
  "Bearer ",
  "api_key:  ",
  'api_key":"\\',
  "authorization: a ",
  "://a:b",
  "a:b@",
  "key is ",
  "token: ",
  "密钥：",
  "令牌 a1",
  "cookie: a=b; ",
  "-----BEGIN ",
  "0123456789abcdef.",
  "key a1"
]

/** A prompt of a megabyte that an error nearly repeats, in forms that are expensive to search. */
const echoed = "The request 'a question about money' was refused for a reason that is not told. "
const prompts: Readonly<Record<string, () => ReadonlyArray<string>>> = {
  "one text": () => ["line of a long and ordinary conversation\n".repeat(24_000)],
  "many texts": () => Array.from({ length: 40_000 }, (_, i) => `a text of tool ${i}`),
  "the error itself": () => [echoed.repeat(12_000)],
  "beginnings of the error": () => [`${echoed.slice(0, 12)}x`.repeat(80_000)],
  Chinese: () => ["中文的内容".repeat(200_000)]
}

const redaction = (report: Report): void => {
  const figures = [
    ...secrets.map((part) => {
      const text = part.repeat(Math.ceil(1_000_000 / part.length))
      return timed(JSON.stringify(part), () => (sink = Redaction.scrub(text, 1_000)), 1)
    }),
    ...Object.entries(prompts).map(([name, make]) => {
      const prompt = make()
      return timed(`prompt: ${name}`, () => (sink = Redaction.scrub(echoed.repeat(4), 300, { prompt })), 1)
    })
  ]
  const [first] = figures
  const slowest = figures.reduce((a, b) => (b.median > a.median ? b : a))
  report.table(
    "Secrets and prompts taken out of 1 MB, µs (ratio: to the first)",
    figures.map((figure) => ({ ...figure, ratio: figure.median / (first?.median ?? figure.median) }))
  )
  report.say(`  slowest: ${slowest.name}, ${(slowest.median / 1_000).toFixed(3)} ms`)
}

const sampleOf = (error: object): Sample => ({ id: "", provider: "other", error })

export const classifier = async (report: Report): Promise<void> => {
  const all = samples()
  report.say(`The classifier on ${all.length} errors, ${rounds} rounds, Node ${process.version}`)
  const overAll = (each: (sample: Sample) => void) => async (calls: number) => {
    for (let i = 0; i < calls; i++) for (const sample of all) each(sample)
  }
  const figures = await measure(
    [
      {
        name: "status only",
        times: 500,
        run: overAll(({ error }) => {
          sink = byStatus(error)
        })
      },
      { name: "every rule, no index", run: overAll(byTryingAll) },
      { name: "Classifier.classify", run: overAll(verdict) },
      { name: "Classifier.failureOf", run: overAll(classify) }
    ],
    { rounds, calls: 40, unitsPerCall: all.length }
  )
  report.table("The whole corpus, µs per error", figures)

  for (const [name, each] of [
    ["Verdicts", verdict],
    ["Verdicts and the errors that carry them", classify]
  ] as const) {
    const sorted = inTurn(all, each).toSorted((a, b) => a.median - b.median)
    const at = (share: number): Figure => {
      const found = sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]
      if (found === undefined) throw new Error("The corpus is empty.")
      return found
    }
    const middle = at(0.5)
    report.table(
      `${name}, error by error, µs`,
      [
        { ...middle, name: "median error" },
        { ...at(0.9), name: "90th percentile" },
        { ...at(1), name: `slowest (${at(1).name})` }
      ].map((figure) => ({ ...figure, ratio: figure.median / middle.median }))
    )
  }
  report.say(`  the target for the median verdict is ${targetMedian} µs`)
  huge(report)
  redaction(report)
  if (sink === undefined) throw new Error("Nothing was classified.")
}
