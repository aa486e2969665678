// The editor, with completion of tables, columns and functions.
//
// It lives in a shadow root: there CodeMirror hands its style sheets over as objects (`adoptedStyleSheets`), which the
// page's Content-Security-Policy allows, instead of writing `style` elements into the document, which it does not.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type Completion, type CompletionContext } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { PostgreSQL, sql } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorState, Prec } from "@codemirror/state";
import { EditorView, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";

import type { FunctionDoc, TableDoc } from "../api";
import { h } from "../dom";

const COLOURS = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--syntax-keyword)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--syntax-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--syntax-number)" },
  { tag: tags.comment, color: "var(--text-soft)", fontStyle: "italic" },
  { tag: [tags.typeName, tags.standard(tags.name)], color: "var(--syntax-type)" },
]);

const LOOK = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--panel)", border: "1px solid var(--line-strong)", borderRadius: "6px", fontSize: "14px" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-content": { fontFamily: "ui-monospace, monospace", minHeight: "8em", caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--ground)", color: "var(--text-soft)", border: "none" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground, ::selection": { backgroundColor: "var(--select)" },
  ".cm-scroller": { maxHeight: "40vh", overflow: "auto" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--text)", border: "1px solid var(--line-strong)" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "inherit", opacity: "0.85" },
  ".cm-completionInfo": { maxWidth: "28em", padding: "6px 8px" },
});

export interface Editor {
  root: HTMLElement;
  text: () => string;
  replace: (text: string) => void;
  focus: () => void;
  destroy: () => void;
}

export function editor(text: string, tables: TableDoc[], functions: FunctionDoc[], run: () => void): Editor {
  const root = h("div", { class: "editor" });
  const shadow = root.attachShadow({ mode: "open" });
  const place = shadow.appendChild(document.createElement("div"));
  const schema = Object.fromEntries(
    tables.map((table) => [
      table.name,
      {
        self: { label: table.name, type: "type", detail: "table", info: table.doc } satisfies Completion,
        children: table.columns.map((column): Completion => ({ label: column.name, type: "property", detail: [column.type, column.unit].filter(Boolean).join(" "), info: column.doc })),
      },
    ]),
  );
  const language = sql({ dialect: PostgreSQL, schema });
  const view = new EditorView({
    root: shadow,
    parent: place,
    state: EditorState.create({
      doc: text,
      extensions: [
        Prec.highest(keymap.of([{ key: "Mod-Enter", run: () => (run(), true) }])),
        EditorView.domEventHandlers({ beforeinput: replaceSelected }),
        lineNumbers(),
        history(),
        bracketMatching(),
        closeBrackets(),
        autocompletion(),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
        language,
        language.language.data.of({ autocomplete: columnsInReach(tables) }),
        language.language.data.of({ autocomplete: functionsOf(functions) }),
        placeholder("SELECT ... (Ctrl+Enter runs it; Ctrl+Space completes)"),
        syntaxHighlighting(COLOURS),
        LOOK,
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": "SQL statement. Escape, then Tab leaves the editor." }),
      ],
    }),
  });
  return {
    root,
    text: () => view.state.doc.toString(),
    replace: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}

/**
 * Typing over a selection. Left to the browser, it writes the look of what it replaces into a `style` attribute, which
 * the page's policy refuses.
 */
function replaceSelected(event: InputEvent, view: EditorView): boolean {
  const { from, to, empty } = view.state.selection.main;
  const text = event.data;
  if (event.inputType !== "insertText" || text === null || empty || view.composing) return false;
  event.preventDefault();
  const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: "input.type", scrollIntoView: true });
  const isHandled = view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, text, insert));
  if (!isHandled) view.dispatch(insert());
  return true;
}

/** Columns of the tables that the statement names, without their table's name before them. */
function columnsInReach(tables: TableDoc[]): (context: CompletionContext) => { from: number; options: Completion[] } | null {
  return (context) => {
    const word = context.matchBefore(/[\w]+/);
    if (!word && !context.explicit) return null;
    if (context.matchBefore(/\.\w*/)) return null;
    const statement = context.state.doc.toString();
    const named = tables.filter(({ name }) => new RegExp(`\\b${name}\\b`).test(statement));
    const options = named.flatMap(({ name, columns }) =>
      columns.map((column): Completion => ({ label: column.name, type: "property", detail: `${name} ${column.unit ?? ""}`.trim(), info: column.doc, boost: 1 })),
    );
    return options.length > 0 ? { from: word?.from ?? context.pos, options } : null;
  };
}

function functionsOf(functions: FunctionDoc[]): (context: CompletionContext) => { from: number; options: Completion[] } | null {
  const options = functions.map(
    ({ name, kind, signature, doc }): Completion => ({
      label: name,
      type: "function",
      apply: `${name}(`,
      detail: signature?.slice(name.length) ?? kind,
      // Those that only this server has stand first among functions.
      boost: signature ? 0 : -1,
      ...(doc ? { info: doc } : {}),
    }),
  );
  return (context) => {
    const word = context.matchBefore(/\w{2,}/);
    return word && !context.matchBefore(/\.\w*/) ? { from: word.from, options } : null;
  };
}
