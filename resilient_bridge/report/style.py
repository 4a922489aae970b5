"""The CSS of the page, for light, dark and narrow screens and paper, and the script of its filter.

Rule: nothing is fetched. Without the script the page only lacks the filter of its tables. The
script's hash is in the page's Content-Security-Policy.
"""

from __future__ import annotations

from typing import Final


_LIGHT: Final = """--bg:#fafaf8;--card:#fff;--ink:#1b1f24;--soft:#59616b;--rule:#dcdfe3;--zebra:#f5f6f4;--link:#1f5fa8;
--good:#5fae98;--busy:#5d8fd0;--wait:#eab54d;--bad:#b8322a;--none:#e6e8eb;--over:rgba(255,255,255,.62);--alarm:#a3231c;--calm:#1e6b57;color-scheme:light;"""
_DARK: Final = """--bg:#14171b;--card:#1b1f25;--ink:#e8eaed;--soft:#a4adb8;--rule:#353b44;--zebra:#20252c;--link:#8dbcf2;
--good:#3d8c78;--busy:#4d7fc0;--wait:#c99a36;--bad:#dc5a50;--none:#2b3038;--over:rgba(16,18,22,.55);--alarm:#ff9c93;--calm:#7fd3b9;color-scheme:dark;"""

CSS: Final = (
    f"""
:root{{{_LIGHT}}}
@media screen and (prefers-color-scheme:dark){{:root{{{_DARK}}}}}
"""
    """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif}
header,main,footer{max-width:76rem;margin:0 auto;padding:0 1.5rem}
header{padding-top:2.2rem}
h1{font-size:.95rem;font-weight:600;letter-spacing:.02em;color:var(--soft);margin:0 0 .5rem}
.headline{font-size:clamp(1.3rem,1.05rem + 1.1vw,1.8rem);line-height:1.28;font-weight:650;letter-spacing:-.01em;margin:0 0 .8rem;max-width:44em;padding-left:.9rem;border-left:5px solid var(--calm);text-wrap:pretty}
.trouble{border-color:var(--alarm)}
.meta{color:var(--soft);margin:0 0 1.4rem;font-size:.92rem;overflow-wrap:anywhere}
dl.tiles{display:flex;flex-wrap:wrap;gap:1px;margin:0 0 1.4rem;background:var(--rule);border:1px solid var(--rule);border-radius:8px;overflow:hidden}
dl.tiles div{background:var(--card);padding:.75rem .95rem;flex:1 1 7.2rem;display:flex;flex-direction:column-reverse;justify-content:flex-end}
dl.tiles dt{color:var(--soft);font-size:.82rem;line-height:1.3} dl.tiles dd{margin:0;font-size:1.45rem;font-weight:600;font-variant-numeric:tabular-nums;line-height:1.25}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;padding:0;margin:0 0 .6rem;font-size:.92rem}
a{color:var(--link)}
a:focus-visible,.scroll:focus-visible,input:focus-visible{outline:2px solid var(--link);outline-offset:2px}
section{margin:0;padding:1.7rem 0 .6rem;border-top:1px solid var(--rule)}
h2{font-size:1.25rem;line-height:1.3;margin:0 0 .35rem;letter-spacing:-.005em}
h3{font-size:1rem;margin:1.3rem 0 .3rem}
.lead{color:var(--soft);margin:0 0 .9rem;max-width:60em}
.note{color:var(--soft);font-size:.86rem;margin:.1rem 0 1rem;max-width:60em}
.row{display:grid;grid-template-columns:15rem minmax(0,1fr);gap:.9rem;align-items:center;margin:0 0 5px;padding-right:2.6rem;position:relative}
.row .name{font-size:.88rem;line-height:1.2;overflow-wrap:anywhere} .row small{display:block;color:var(--soft);font-size:.78rem}
.row svg{width:100%;display:block;overflow:visible}
.row.tall{margin-bottom:.8rem}
.scale{position:absolute;right:0;top:0;height:66px;display:flex;flex-direction:column;justify-content:space-between;pointer-events:none}
.scale i{font-style:normal;font-size:.72rem;line-height:1;color:var(--soft);font-variant-numeric:tabular-nums;transform:translateY(-3px)}
.ruler{margin-bottom:2px}
.axis text{font-size:11.5px;fill:var(--soft);font-variant-numeric:tabular-nums} .axis line{stroke:var(--soft)}
.grid{stroke:var(--rule);stroke-dasharray:2 3} .base{stroke:var(--rule)}
.good{fill:var(--good)}.busy{fill:var(--busy)}.wait{fill:var(--wait)}.bad{fill:var(--bad)}.over{fill:var(--over)}
.s-good{fill:var(--good)}.s-none{fill:var(--none)}
.s-busy{fill:url(#p-busy);stroke:var(--busy)}.s-wait{fill:url(#p-wait);stroke:var(--wait)}.s-bad{fill:url(#p-bad);stroke:var(--bad)}
.s-mixed{fill:url(#p-mixed)} .bar{stroke:none}
.mark{font-size:12px;font-weight:700;fill:var(--ink);stroke:var(--bg);stroke-width:3px;paint-order:stroke}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.3rem 1.3rem;padding:0;margin:.7rem 0 1.2rem;font-size:.84rem;color:var(--soft)}
.legend svg{vertical-align:-1px;margin-right:.2rem} .letter{color:var(--ink)}
.defs{position:absolute}
.scroll{overflow-x:auto;margin:.9rem 0 .4rem}
table{border-collapse:collapse;width:100%;font-size:.88rem;line-height:1.4}
.two table{width:auto;min-width:min(26rem,100%)}
caption{text-align:left;font-weight:600;font-size:.95rem;padding:0 0 .4rem;caption-side:top}
th,td{text-align:left;vertical-align:top;padding:.38rem .9rem .38rem .4rem;border-bottom:1px solid var(--rule)}
.w{overflow-wrap:anywhere;min-width:9rem}
thead th{color:var(--soft);font-weight:600;font-size:.8rem;border-bottom:1px solid var(--soft);vertical-align:bottom}
tbody th{font-weight:500} tbody tr:nth-child(even){background:var(--zebra)}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.filter{display:block;margin:0 0 1rem;font-size:.88rem} .filter input{font:inherit;margin-left:.4rem;padding:.25rem .5rem;background:var(--card);color:var(--ink);border:1px solid var(--soft);border-radius:5px;width:14rem;max-width:60vw}
footer{color:var(--soft);font-size:.84rem;padding-top:1rem;padding-bottom:2.5rem;border-top:1px solid var(--rule);margin-top:1rem}
@media(max-width:720px){header,main,footer{padding-left:.95rem;padding-right:.95rem}header{padding-top:1.3rem}.row{grid-template-columns:minmax(0,1fr);gap:1px;margin-bottom:9px}.ruler{gap:0}
.row small{display:inline;margin-left:.3rem}.minor{display:none}.scale{top:auto;bottom:0}.row{padding-right:2rem}dl.tiles div{flex-basis:45%}dl.tiles dd{font-size:1.2rem}}
@media print{body{font-size:10pt;background:#fff}header,main,footer{max-width:none;padding:0}nav,.filter{display:none}.scroll{overflow:visible}
section{padding-top:.8rem}.row,tr,dl.tiles{break-inside:avoid}h2,h3,caption,.ruler,.lead{break-after:avoid}thead{display:table-header-group}table{font-size:8.5pt}svg,dl.tiles,tr{print-color-adjust:exact;-webkit-print-color-adjust:exact}
.row{grid-template-columns:11rem minmax(0,1fr)} th,td{padding:.2rem .6rem .2rem .2rem;overflow-wrap:break-word} .w{min-width:0} a{color:inherit;text-decoration:none}@page{margin:14mm}}
"""
)

SCRIPT: Final = """(function(){var nav=document.querySelector('nav'),label=document.createElement('label'),input=document.createElement('input');
label.className='filter';label.textContent='Filter the rows of all tables';input.type='search';label.appendChild(input);nav.appendChild(label);
input.addEventListener('input',function(){var word=input.value.toLowerCase();document.querySelectorAll('tbody tr').forEach(function(row){
row.hidden=word!==''&&row.textContent.toLowerCase().indexOf(word)<0})})})();"""
