/**
 * The labelled errors of the corpus, for tests.
 */
import { readFileSync } from "node:fs"
import { Duration } from "effect"
import { Classifier } from "@outlast/agent"
import * as ErrorFacts from "#agent/failure/facts/ErrorFacts"

interface Link {
  readonly name: string
  readonly message: string
  readonly code: string | null
}

export interface Case {
  readonly id: string
  readonly provider: string
  readonly status: number | null
  readonly code: string | null
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
  readonly message: string
  readonly cause_chain: ReadonlyArray<Link>
  readonly expected: string
  readonly alt?: ReadonlyArray<string>
  readonly retry_after_ms: number | null
  /** Where it was reported; absent for errors from memory. */
  readonly source?: string
}

const read = (name: string): ReadonlyArray<Case> =>
  readFileSync(new URL(`../../../../test/fixtures/corpus/${name}.jsonl`, import.meta.url), "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Case) // the schema is that of the fixture's README

export const cases: ReadonlyArray<Case> = read("public")

/** Written from memory, after the rules. */
export const afterwards: ReadonlyArray<Case> = read("afterwards")

/** Written from memory, so that each phrase has a case that needs it. */
export const phrases: ReadonlyArray<Case> = read("phrases")

/** Written from memory by a reviewer who attacked the rules, before and after reading them. */
export const review: ReadonlyArray<Case> = read("review")

/** From public reports and documentation, collected before the rules were extended for them. */
export const blind: ReadonlyArray<Case> = read("blind-2")

/** All sets that were labelled before the rules were evaluated on them. */
export const blinds = ["blind-2", "blind-3", "blind-4", "blind-5", "blind-6"].map((name) => ({
  name,
  cases: read(name)
}))

/** The error that a client would have thrown. */
export const errorOf = ({ status, code, headers, body, message, cause_chain }: Case): object => {
  const cause = cause_chain.reduceRight<object | undefined>(
    (inner, { name, message, code }) => ({
      name,
      message,
      ...(code === null ? {} : { code }),
      ...(inner && { cause: inner })
    }),
    undefined
  )
  return {
    message,
    ...(status === null ? {} : { statusCode: status }),
    ...(code === null ? {} : { code }),
    responseHeaders: headers,
    ...(body === null ? {} : { responseBody: body }),
    ...(cause && { cause })
  }
}

export const label = (tag: string): string => tag.replace(/([a-z])([A-Z])/g, "$1_$2").toLowerCase()

export const verdict = (one: Case, rules = Classifier.defaultRules) => {
  const { reason, retryAfter, evidence } = Classifier.classify(ErrorFacts.fromUnknown(errorOf(one)), {
    provider: one.provider,
    rules
  })
  return {
    label: label(reason._tag),
    reason,
    evidence,
    wait: retryAfter === undefined ? null : Duration.toMillis(retryAfter)
  }
}
