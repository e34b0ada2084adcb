/**
 * The handlers of a toolkit, checked where a run begins.
 *
 * TypeScript reports a missing handler, and one that returns no Effect, when it compiles. JavaScript learns it here:
 * the first before the model is asked, the second when the tool is called.
 */
import { Context } from "effect"
import type { Tool, Toolkit } from "effect/ai"
import { MissingService, Options as Check } from "@outlast/resilience"

/** A handler as it stands in the context, under the id of its tool. */
interface Handler {
  readonly handler: (...args: ReadonlyArray<unknown>) => unknown
}

/**
 * The context with handlers that must return an Effect. Throws a `MissingService` that names the tools whose handlers
 * are not in it.
 */
export const checked =
  <Tools extends Record<string, Tool.Any>, R>({ tools }: Toolkit.Toolkit<Tools>) =>
  (context: Context.Context<R>): Context.Context<R> => {
    const handlers = new Map<string, unknown>()
    const missing: Array<string> = []
    for (const tool of Object.values<Tool.Any>(tools)) {
      // effect/ai puts nothing else under the id of a tool.
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

/** A tool of the provider may run there. */
const needsHandler = (tool: Tool.Any): boolean =>
  !("requiresHandler" in tool) || tool.requiresHandler === true

const returning =
  (tool: string, { handler }: Handler): Handler["handler"] =>
  (...args) =>
    Check.returned("Agent", `the handler of ${tool}`, handler(...args), "an Effect")
