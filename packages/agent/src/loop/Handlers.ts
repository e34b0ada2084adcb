/**
 * Checks the handlers of a toolkit at the start of a run.
 *
 * TypeScript reports a missing handler, or one that does not return an Effect, at compile time. For JavaScript a
 * missing handler fails before the model is asked, and the other when the tool is called.
 */
import { Context } from "effect"
import type { Tool } from "effect/ai"
import { MissingService, Options as Check } from "@outlast/resilience"

/** A handler in the context, under the id of its tool. */
interface Handler {
  readonly handler: (...args: ReadonlyArray<unknown>) => unknown
}

/**
 * Returns the context with handlers that check that an Effect is returned. Throws a `MissingService` with the names
 * of the tools without a handler.
 */
export const checked =
  <Tools extends Record<string, Tool.Any>, R>({ tools }: { readonly tools: Tools }) =>
  (context: Context.Context<R>): Context.Context<R> => {
    const handlers = new Map<string, unknown>()
    const missing: Array<string> = []
    for (const tool of Object.values<Tool.Any>(tools)) {
      // The id of a tool is the key of its handler only.
      const own = context.mapUnsafe.get(tool.id) as Handler | undefined
      if (own !== undefined) handlers.set(tool.id, { ...own, handler: returning(tool.name, own) })
      else if (needsHandler(tool)) missing.push(tool.name)
    }
    if (missing.length > 0) {
      const layer = `toolkit.toLayer({ ${missing.map((name) => `${JSON.stringify(name)}: (params) => Effect`).join(", ")} })`
      throw new MissingService.MissingService(`The handler of ${missing.join(", ")}`, layer)
    }
    return Context.merge(context, Context.makeUnsafe<never>(handlers))
  }

/** False for a tool that the provider runs. */
const needsHandler = (tool: Tool.Any): boolean =>
  !("requiresHandler" in tool) || tool.requiresHandler === true

const returning =
  (tool: string, { handler }: Handler): Handler["handler"] =>
  (...args) =>
    Check.returned("Agent", `the handler of ${tool}`, handler(...args), "an Effect")
