#include "keel/record/report/report_parts.h"

namespace keel {

const char* report_style() {
  return R"css(
:root{--paper:#fbfbfa;--card:#fff;--ink:#1b1f24;--soft:#5b6570;--rule:#e2e5e9;--edge:rgba(27,31,36,.08);
--s0:#0072b2;--s1:#c75400;--s2:#00815f;--s3:#b3558a;--s4:#b27a00;--s5:#2f8fc4;--s6:#6f52a8;
--up:0,114,178;--down:230,130,0;--block:#a3123f;--hatch:rgba(163,18,63,.2)}
@media (prefers-color-scheme:dark){:root{--paper:#0f1216;--card:#171b21;--ink:#e6e9ed;--soft:#9aa5b1;--rule:#2b3139;
--edge:rgba(255,255,255,.07);--s0:#4aa8e0;--s1:#f08a45;--s2:#35c79b;--s3:#e09bc4;--s4:#e8b13f;--s5:#8fd0f5;--s6:#b39ddb;
--up:60,150,220;--down:235,140,20;--block:#ff7d9c;--hatch:rgba(255,125,156,.25)}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1120px;margin:0 auto;padding:36px 24px 64px}
h1{font-size:30px;line-height:1.15;letter-spacing:-.015em;margin:0;overflow-wrap:anywhere}
h2{font-size:19px;letter-spacing:-.01em;margin:44px 0 12px}
h3{font-size:14.5px;margin:0;font-weight:650}
.samples>h3{margin:14px 0 0}
.eyebrow{margin:0 0 6px;color:var(--soft);font-size:12px;letter-spacing:.08em;text-transform:uppercase}
.note{color:var(--soft);font-size:13px;margin:-6px 0 12px}
.chips{list-style:none;display:flex;flex-wrap:wrap;gap:4px 20px;padding:0;margin:10px 0 0;color:var(--soft);
font-size:14px}
.chips b{color:var(--ink);font-weight:600}
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:26px 0 0}
.tile{flex:1 1 30%;min-width:230px;background:var(--card);border:1px solid var(--edge);border-radius:10px;
padding:13px 16px;
box-shadow:0 1px 2px var(--edge)}
.tile dt{color:var(--soft);font-size:12.5px}
.tile dd{margin:2px 0 0}
.tile dd b{display:block;font-size:25px;line-height:1.25;font-weight:650;letter-spacing:-.015em}
.tile .before{color:var(--soft);font-weight:500}
.tile dd>span{color:var(--soft);font-size:12.5px;line-height:1.35;display:block}
.charts{display:grid;grid-template-columns:1fr 1fr;gap:14px}
.card{background:var(--card);border:1px solid var(--edge);border-radius:10px;box-shadow:0 1px 2px var(--edge);margin:0;
padding:14px 16px 10px;min-width:0}
.wide{grid-column:1/-1}
figure{position:relative;display:flex;flex-direction:column}
figcaption{flex:1}
figcaption p{margin:1px 0 0;color:var(--soft);font-size:12.5px;line-height:1.4}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 16px;margin:6px 0 0;padding:0;font-size:12.5px}
.legend li{display:flex;align-items:center;gap:6px;overflow-wrap:anywhere}
.key{flex:none;display:inline-block;width:14px;height:3px;border-radius:2px;vertical-align:middle;margin-right:7px}
.legend .key{margin-right:0}
.key.round{width:8px;height:8px;border-radius:50%}
.key.ink{background:var(--soft)}
.chart{display:block;width:100%;height:auto;margin-top:8px;overflow:visible;font-family:inherit}
.chart .labels{fill:var(--soft)}.chart .grid{stroke:var(--soft);stroke-opacity:.22}
.on-narrow{display:none}.mark-label text{font-size:13.5px}
sup{font-size:.62em;line-height:0}
path.s0{stroke:var(--s0)}path.s1{stroke:var(--s1)}path.s2{stroke:var(--s2)}path.s3{stroke:var(--s3)}
path.s4{stroke:var(--s4)}path.s5{stroke:var(--s5)}path.s6{stroke:var(--s6)}
.dot.s0{fill:var(--s0)}.dot.s1{fill:var(--s1)}.dot.s2{fill:var(--s2)}.dot.s3{fill:var(--s3)}
.dot.s4{fill:var(--s4)}.dot.s5{fill:var(--s5)}.dot.s6{fill:var(--s6)}
.mark.s0{fill:var(--s0);stroke:var(--s0)}.mark.s1{fill:var(--s1);stroke:var(--s1)}.mark.s2{fill:var(--s2);
stroke:var(--s2)}
.mark.s3{fill:var(--s3);stroke:var(--s3)}.mark.s4{fill:var(--s4);stroke:var(--s4)}.mark.s5{fill:var(--s5);
stroke:var(--s5)}
.mark.s6{fill:var(--s6);stroke:var(--s6)}
.mark-label{fill:var(--s1)}
.key.s0{background:var(--s0)}.key.s1{background:var(--s1)}.key.s2{background:var(--s2)}.key.s3{background:var(--s3)}
.key.s4{background:var(--s4)}.key.s5{background:var(--s5)}.key.s6{background:var(--s6)}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--edge);border-radius:10px;
box-shadow:0 1px 2px var(--edge)}
.scroll+.note{margin:8px 0 0}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th,td{padding:6px 12px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
tbody tr:last-child>*{border-bottom:0}
thead th{color:var(--soft);font-weight:500;font-size:12.5px;line-height:1.3;white-space:normal;vertical-align:bottom}
th:first-child{text-align:left;font-weight:500}
table.text th,table.text td{text-align:left}
code,pre,.strip{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:13px}
code{font-size:.92em}
.token-legend{display:flex;flex-wrap:wrap;gap:6px 26px;align-items:center;font-size:13px;margin:0 0 12px;
color:var(--soft)}
.token-legend b{color:var(--ink);font-weight:600}
.ramp{display:inline-flex;vertical-align:middle;margin:0 4px}
.ramp .t{width:17px;height:15px;border-radius:0;margin:0;box-shadow:none}
.samples{display:grid;grid-template-columns:1fr 1fr;gap:12px;align-items:start}
.samples>h3{grid-column:1/-1}
.sample{padding:12px 16px 14px}
.facts{margin:0 0 8px;font-size:13px;color:var(--soft);display:flex;flex-wrap:wrap;gap:2px 16px}
.facts b{color:var(--ink);font-weight:600}
.warn{color:var(--block);font-weight:600}
pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.55}
.prompt{color:var(--soft);border-left:3px solid var(--rule);padding:0 0 0 11px;margin:0 0 9px}
.strip{line-height:2;overflow-x:auto;padding:2px}
.t{display:inline-block;white-space:pre;padding:0 3px;margin:0 1px 0 0;border-radius:3px;line-height:1.5;
box-shadow:inset 0 0 0 1px var(--edge);min-width:9px}
.u1{background:rgba(var(--up),.08)}.u2{background:rgba(var(--up),.15)}.u3{background:rgba(var(--up),.22)}
.u4{background:rgba(var(--up),.29)}.u5{background:rgba(var(--up),.36)}.u6{background:rgba(var(--up),.43)}
.u7{background:rgba(var(--up),.5)}.u8{background:rgba(var(--up),.58)}
.d1{background:rgba(var(--down),.1)}.d2{background:rgba(var(--down),.18)}.d3{background:rgba(var(--down),.26)}
.d4{background:rgba(var(--down),.34)}.d5{background:rgba(var(--down),.42)}.d6{background:rgba(var(--down),.5)}
.d7{background:rgba(var(--down),.58)}.d8{background:rgba(var(--down),.66)}
.t.x{box-shadow:inset 0 0 0 2px var(--block);
background:repeating-linear-gradient(135deg,transparent 0 4px,var(--hatch) 4px 6px)}
.t.on{outline:2px solid var(--ink);outline-offset:1px}
.more{color:var(--soft)}
.answer{margin:8px 0 0;font-size:13px;color:var(--soft);overflow-wrap:anywhere}
.answer code{color:var(--ink);white-space:pre-wrap}
.blocked{list-style:none;margin:8px 0 0;padding:7px 0 0;border-top:1px solid var(--rule);font-size:12.5px;
color:var(--soft)}
.blocked code{color:var(--block)}
details{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:11px 16px;margin-top:12px}
summary{cursor:pointer;font-weight:600}
details>*:not(summary){margin-top:12px}
.config{margin-top:28px}
footer{color:var(--soft);font-size:12.5px;margin-top:36px}
.tip{position:absolute;z-index:2;pointer-events:none;background:var(--ink);color:var(--paper);font-size:12px;
line-height:1.45;
padding:5px 9px;border-radius:6px;white-space:pre;max-width:92vw}
.rule{stroke:var(--soft);stroke-opacity:.6;stroke-dasharray:2 2}
.pinned{position:fixed;left:0;right:0;bottom:0;background:var(--ink);color:var(--paper);padding:10px 18px;
font-size:13.5px;z-index:3}
@media (max-width:700px){
body{font-size:15px}main{padding:22px 14px 56px}h1{font-size:25px}h2{margin-top:34px}
.charts{grid-template-columns:1fr}
.tiles{gap:10px}.tile{flex-basis:40%;min-width:0;padding:11px 12px}.tile:first-child{flex-basis:100%}
.tile dd b{font-size:21px}
.card{padding:12px 12px 8px}
.on-wide{display:none}.on-narrow{display:block}.chart text{font-size:16px}.mark-label text{font-size:18px}
.samples{grid-template-columns:minmax(0,1fr)}
th,td{padding:6px 10px}
.scroll th:first-child{white-space:normal;min-width:118px}
.hint{display:none}}
@media print{
:root{--paper:#fff;--card:#fff;--ink:#000;--soft:#444;--rule:#ccc;--edge:rgba(0,0,0,.18)}
body{font-size:11px;-webkit-print-color-adjust:exact;print-color-adjust:exact}
main{max-width:none;padding:0}
.scroll,details{box-shadow:none}.card,.tile{box-shadow:none;break-inside:avoid}tr{break-inside:avoid}
.tile{min-width:0}.tile dd b{font-size:19px}.chart text{font-size:15px}.wide .chart text{font-size:17px}
th,td{padding:3px 10px;font-size:11px}h2{margin:24px 0 8px}
h2{break-after:avoid}.scroll{overflow:visible}.hint,.tip,.pinned{display:none}}
)css";
}

const char* report_script() {
  // Only adds: values under the pointer, and the tooltips of tokens on screens that have no pointer.
  return R"js(
(function(){'use strict';
var number=function(v){var a=Math.abs(v);return v===0?'0':a>=1e4?Math.round(v).toLocaleString('en'):
 a<1e-3?v.toExponential(2):String(+v.toPrecision(3))};
document.querySelectorAll('figure svg').forEach(function(svg){
 var figure=svg.closest('figure'),plot=svg.querySelector('.plot');
 var read=function(n){return plot.dataset[n].split(' ').map(Number)};
 var box=read('box'),xs=read('x'),ys=read('y'),log=plot.dataset.log==='1',percent=plot.dataset.percent==='1';
 var lines=Array.prototype.map.call(svg.querySelectorAll('path.line'),function(path){
  var v=(path.getAttribute('d').match(/-?[\d.]+/g)||[]).map(Number),points=[];
  for(var i=0;i+1<v.length;i+=2)points.push([v[i],v[i+1]]);
  return{name:path.dataset.name,points:points}}).filter(function(l){return l.points.length});
 if(!lines.length)return;
 var tip=document.createElement('div'),rule=document.createElementNS('http://www.w3.org/2000/svg','path');
 tip.className='tip';tip.hidden=true;figure.appendChild(tip);rule.setAttribute('class','rule');plot.appendChild(rule);
 var hide=function(){tip.hidden=true;rule.setAttribute('d','')};
 svg.addEventListener('pointermove',function(event){
  var r=svg.getBoundingClientRect(),scale=svg.viewBox.baseVal.width/r.width,x=(event.clientX-r.left)*scale;
  if(x<box[0]-4||x>box[0]+box[2]+4){hide();return}
  var at=0,rows=lines.map(function(line){
   var best=line.points.reduce(function(a,b){return Math.abs(b[0]-x)<Math.abs(a[0]-x)?b:a});at=best[0];
   var t=1-(best[1]-box[1])/box[3],v=log?ys[0]*Math.pow(ys[1]/ys[0],t):ys[0]+t*(ys[1]-ys[0]);
   return (lines.length>1?line.name+'  ':'')+(percent?number(v*100)+' %':number(v))});
  var step=Math.round(xs[0]+(at-box[0])/box[2]*(xs[1]-xs[0]));
  tip.textContent='step '+step+(figure.dataset.window?' (average)':'')+'\n'+rows.join('\n');tip.hidden=false;
  rule.setAttribute('d','M'+at+' '+box[1]+'V'+(box[1]+box[3]));
  var f=figure.getBoundingClientRect(),left=event.clientX-f.left+14;
  if(left+tip.offsetWidth>f.width)left=Math.max(0,event.clientX-f.left-tip.offsetWidth-14);
  tip.style.left=left+'px';tip.style.top=(event.clientY-f.top+14)+'px'});
 svg.addEventListener('pointerleave',hide)});
var bar=null,on=null;
document.addEventListener('click',function(event){
 var token=event.target.closest?event.target.closest('.strip .t'):null;
 if(on)on.classList.remove('on');
 if(!token||token===on){on=null;if(bar)bar.hidden=true;return}
 if(!bar){bar=document.createElement('div');bar.className='pinned';bar.setAttribute('role','status');
 document.body.appendChild(bar)}
 on=token;on.classList.add('on');bar.textContent='“'+token.textContent+'”  '+token.title;bar.hidden=false});
})();
)js";
}

}  // namespace keel
