/** Legitimate work that looks repetitive: files about errors, and searches without a result. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, SafetyGuard } from "@outlast/agent"
import { LoopDetector } from "@outlast/agent/guard"
import { model, over, recording } from "./support.ts"

const { String: Text } = Schema
const Kit = Toolkit.make(
  Tool.make("read_file", { parameters: Schema.Struct({ path: Text }), success: Text }),
  Tool.make("grep", { parameters: Schema.Struct({ pattern: Text, path: Text }), success: Text })
)

const things = (
  "account address basket billing carrier catalog contact coupon delivery invoice ledger location merchant " +
  "order parcel partner payment pricing product profile receipt refund return review shipment stock supplier " +
  "tariff voucher warehouse"
).split(" ")
const upper = (name: string) => `${name.slice(0, 1).toUpperCase()}${name.slice(1)}`

/** One file for each name. The files differ in little else. */
const languages: Readonly<Record<string, { readonly ext: string; readonly file: (name: string) => string }>> =
  {
    Go: {
      ext: "go",
      file: (name) => `package handlers

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

var errNotFound = errors.New("${name} not found")

func (s *Server) get(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	row, err := s.store.Get(r.Context(), id)
	if err != nil {
		if errors.Is(err, errNotFound) {
			http.Error(w, err.Error(), http.StatusNotFound)
			return nil
		}
		return fmt.Errorf("failed to load ${name}: %w", err)
	}
	if err := json.NewEncoder(w).Encode(row); err != nil {
		return fmt.Errorf("failed to encode ${name}: %w", err)
	}
	return nil
}
`
    },
    Rust: {
      ext: "rs",
      file: (name) => `use crate::error::{Error, Result};
use crate::store::Store;

pub async fn get_${name}(store: &Store, id: &str) -> Result<${upper(name)}> {
    let row = store.find(id).await.map_err(|err| Error::Store(err.to_string()))?;
    match row {
        Some(row) => Ok(row.into()),
        None => Err(Error::NotFound(format!("${name} {id}"))),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn fails_without_an_id() {
        assert!(matches!(super::parse(""), Err(Error::Invalid(_))), "expected an error");
    }
}
`
    },
    Python: {
      ext: "py",
      file: (name) => `class LoadError(Exception):
    """Raised when a ${name} cannot be loaded."""


def load(store, key):
    try:
        row = store.get(key)
    except KeyError as error:
        raise LoadError(f"{key} is unknown") from error
    except TimeoutError:
        log.exception("failed to load ${name}")
        raise
    if row is None:
        raise LoadError("invalid ${name}")
    return row
`
    },
    TypeScript: {
      ext: "ts",
      file: (name) => `import { InvalidInput, NotFoundError } from "../errors.ts"
import { logger } from "../logger.ts"

export const load = async (id: string): Promise<Row> => {
  try {
    const row = await store.find("${name}", id)
    if (row === undefined) throw new NotFoundError("${name}", id)
    return decode(row)
  } catch (error) {
    logger.error("failed to load ${name}", { id, error })
    throw error instanceof NotFoundError ? error : new Error("unable to load", { cause: error })
  }
}
`
    }
  }

interface Call {
  readonly name: "read_file" | "grep"
  readonly params: Readonly<Record<string, string>>
}

/** An agent that makes the calls, one per turn, under the default guard. */
const made = (calls: ReadonlyArray<Call>, result: (call: Call) => string) =>
  Effect.gen(function* () {
    let ran = 0
    const say = (call: Call) => Effect.sync(() => (ran++, result(call)))
    const handlers = Kit.toLayer({
      read_file: (params) => say({ name: "read_file", params }),
      grep: (params) => say({ name: "grep", params })
    })
    const target = yield* model({
      answers: ({ turn }) => {
        const call = calls[turn]
        return call === undefined ? { text: "done" } : { toolCalls: [call] }
      }
    })
    const { of, layer: events } = recording()
    const outcome = yield* Agent.run({ prompt: "review them all", toolkit: Kit }).pipe(
      SafetyGuard.run(),
      Effect.provide([handlers, over(target), events])
    )
    return { ran, outcome, blocked: of("GuardBlocked").length, nudged: of("GuardNudged") }
  })

describe("similar files that handle errors are read to the end", () => {
  for (const [language, { ext, file }] of Object.entries(languages)) {
    it.effect(language, () =>
      Effect.gen(function* () {
        const files = things.slice(0, 16)
        const path = (name: string) => `src/${name}.${ext}`
        const reads = files.map((name): Call => ({ name: "read_file", params: { path: path(name) } }))
        const texts = new Map(files.map((name) => [path(name), file(name)]))
        const { ran, outcome, blocked, nudged } = yield* made(
          reads,
          ({ params }) => texts.get(params["path"] ?? "") ?? ""
        )
        assert.deepStrictEqual([ran, outcome.status, blocked], [16, "completed", 0])
        assert.notInclude(
          nudged.map(({ pattern }) => pattern),
          "same_failure"
        )
      })
    )
  }

  it.effect("thirty searches without a result are not blocked", () =>
    Effect.gen(function* () {
      const searches = things.map((name): Call => ({
        name: "grep",
        params: { pattern: `legacy_${name}_client`, path: "src" }
      }))
      assert.strictEqual(searches.length, 30)
      const { ran, outcome, blocked } = yield* made(searches, () => "No matches found")
      assert.deepStrictEqual([ran, outcome.status, blocked], [30, "completed", 0])
    })
  )
})

describe("a failure of a reading tool", () => {
  const soft = LoopDetector.make({ mode: "soft", failures: { nudge: 2, block: 2 } })
  /** Reads different files and returns whether the same failure is detected. */
  const isFailure = (result: (name: string) => unknown, failed = false): boolean => {
    let state = LoopDetector.initial
    for (const [turn, name] of things.entries()) {
      const call = { turn, tool: "read_file", arguments: { path: `src/${name}` } }
      const verdict = LoopDetector.before(soft, state, call)
      if (verdict._tag !== "Ok" && verdict.evidence.pattern === "same_failure") return true
      state = LoopDetector.observe(soft, state, { ...call, result: result(name), failed })
    }
    return false
  }

  it("is recognised by its failure channel, an error field, or an error at the beginning", () => {
    assert.isTrue(isFailure(() => "gone", true))
    assert.isTrue(isFailure(() => ({ error: "gone" })))
    assert.isTrue(isFailure(() => "Error: ENOENT, no such file"))
    assert.isTrue(isFailure(() => "Failed to read the file"))
    const trace = `Traceback (most recent call last):\n${"  File x, in y\n".repeat(40)}KeyError: z`
    assert.isTrue(isFailure(() => trace))
  })

  it("is not assumed for a text about errors", () => {
    for (const { file } of Object.values(languages)) assert.isFalse(isFailure(file))
    const guide = (name: string) => `# Error handling of ${name}\n${"What fails is an error.\n".repeat(9)}`
    assert.isFalse(isFailure(guide))
    assert.isFalse(isFailure((name) => `export class ${upper(name)}Error extends Error {}`))
    assert.isFalse(isFailure((name) => ({ path: name, content: "return errors.New(failed)" })))
  })
})
